//! What an env is and how many are stepped at once. Knows nothing of Python and nothing of any particular env.

pub mod simd;
