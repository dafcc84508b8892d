//! What plugin authors prove their plugins with: cases, the contract's own checks, costs, and a protocol-v1 server.
