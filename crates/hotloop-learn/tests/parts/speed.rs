//! The speed that benchmarks ask for.

use hotloop_learn::speed::{Shape, update_speed};

#[test]
fn any_shape_is_measured() {
    let shape = Shape { inputs: 5, hidden: vec![7], actions: 3, rows: 2, minibatch_size: 50 };
    let speed = update_speed(&shape, 1, 0.0).unwrap();
    assert!(speed.samples > 0.0 && speed.operations > speed.samples);
}
