"""What a chapter asks its reader: predictions and exercises."""
