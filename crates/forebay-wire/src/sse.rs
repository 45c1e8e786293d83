//! stub
#![allow(missing_docs)]
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    pub prompt: u64,
    pub completion: u64,
    pub cached: Option<u64>,
}
#[derive(Debug)]
pub struct StreamScan;
impl StreamScan {
    pub fn new() -> Self {
        Self
    }
    pub fn feed(&mut self, _: &[u8]) {}
    pub fn failed(&self) -> bool {
        false
    }
    pub fn usage(&self) -> Option<Usage> {
        None
    }
    pub fn first_token_seen(&self) -> bool {
        true
    }
    pub fn tokens_out(&self) -> u64 {
        0
    }
    pub fn done(&self) -> bool {
        true
    }
    pub fn finish_reason_seen(&self) -> bool {
        true
    }
}
#[derive(Debug)]
pub struct WholeScan;
impl WholeScan {
    pub fn new() -> Self {
        Self
    }
    pub fn feed(&mut self, _: &[u8]) {}
    pub fn failed(&self) -> bool {
        false
    }
    pub fn usage(&self) -> Option<Usage> {
        None
    }
}
