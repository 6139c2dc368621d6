"""What calls of AWS are billed for, counted."""
