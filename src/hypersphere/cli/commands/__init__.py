"""What the commands are called and take, without what runs them: nothing here imports torch."""
