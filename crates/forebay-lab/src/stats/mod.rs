//! Says how sure a figure is: pure functions, seeded where they draw.
//!
//! | module | answers |
//! |---|---|
//! | [`share`] | within which bounds is a share whose events come in bursts? |
//! | [`bootstrap`] | do two arms differ, and in which direction? |
//! | [`shift`] | by how much, whatever a few wild blocks do? |
//! | [`quantile`] | where is a quantile, when some are never served? |
//! | [`multiple`] | which of many differences may be claimed? |
//! | [`looks`] | what may be claimed at each of several looks at growing data? |
//! | [`search`] | at which rate do criteria still hold? |
//! | [`knee`] | where does a curve bend, and how long does a capacity last? |
//! | [`fairness`] | how evenly is something shared out? |
//! | [`distribution`] | normal, t and beta |

pub mod bootstrap;
pub mod distribution;
pub mod fairness;
pub mod knee;
pub mod looks;
pub mod multiple;
pub mod quantile;
pub mod search;
pub mod share;
pub mod shift;
