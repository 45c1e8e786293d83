//! Holds comparisons to what they claim.
