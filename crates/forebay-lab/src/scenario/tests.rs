//! Checks what scenario files may say and what their verdicts say back.
