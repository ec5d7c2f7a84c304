//! What a run would take on non-volatile memory of a given latency and bandwidth.
