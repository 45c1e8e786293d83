//! Says how sure a figure is: pure functions, seeded where they draw.
//!
//! | module | answers |
//! |---|---|
//! | [`looks`] | what may be claimed at each of several looks at growing data? |

pub mod looks;
