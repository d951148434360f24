"""One file per format of image sets, each with a reader and a writer."""
