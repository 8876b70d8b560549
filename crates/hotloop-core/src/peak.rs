//! The machine's arithmetic limit, measured: how many multiply-adds per second a loop of nothing else makes.

use std::hint::black_box;
use std::sync::Mutex;
use std::time::Instant;

use crate::parallel::ParallelFor;
use crate::simd::{Floats, Isa, Kernel, Simd};

/// Independent chains: enough to hide the latency of every CPU's FMA units.
const CHAINS: usize = 12;
const ROUNDS: usize = 1 << 16;

struct Chains {
    factor: f32,
}

impl Kernel for Chains {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f32 {
        let factor = simd.f(self.factor);
        let mut sums = [simd.f(1.0); CHAINS];
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                *sum = sum.fma(factor, factor);
            }
        }
        let mut total = simd.f(0.0);
        for sum in sums {
            total = total + sum;
        }
        let mut lanes = [0.0; 16];
        // SAFETY: a vector has at most 16 lanes.
        unsafe { total.store(lanes.as_mut_ptr()) };
        lanes[0]
    }
}

/// Floating-point operations per second (an FMA counts as two) of `threads` threads, over about that many seconds.
pub fn fma_peak(isa: Isa, threads: usize, seconds: f64) -> std::io::Result<f64> {
    let lanes = isa.run(SimdGroup);
    let mut team = ParallelFor::new(threads, false)?;
    let rates: Vec<Mutex<f64>> = (0..threads).map(|_| Mutex::new(0.0)).collect();
    team.run(threads, &|thread| {
        let start = Instant::now();
        let mut rounds = 0_u64;
        while start.elapsed().as_secs_f64() < seconds {
            black_box(isa.run(Chains { factor: black_box(0.5) }));
            rounds += ROUNDS as u64;
        }
        let operations = rounds as f64 * (CHAINS * lanes * 2) as f64;
        *rates[thread].lock().expect("each thread has its own") = operations / start.elapsed().as_secs_f64();
    });
    Ok(rates.iter().map(|rate| *rate.lock().expect("no thread panicked")).sum())
}

struct SimdGroup;

impl Kernel for SimdGroup {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> usize {
        S::LANES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_set_makes_multiply_adds() {
        for isa in Isa::ALL.into_iter().filter(|isa| isa.available()) {
            assert!(fma_peak(isa, 2, 0.01).unwrap() > 0.0);
        }
    }
}
