//! Who is asked whether long work is to go on.

use std::thread;

use hotloop_learn::cancel::CancelToken;

#[test]
fn only_the_caller_is_asked_and_all_hear_the_answer() {
    let caller = thread::current().id();
    let ask = || {
        assert_eq!(thread::current().id(), caller);
        true
    };
    let patience = CancelToken::new(&ask);
    let elsewhere = || thread::scope(|scope| scope.spawn(|| patience.over()).join().unwrap());
    assert!(!patience.over(), "short work is not disturbed");
    assert!(!elsewhere());
    while !patience.over() {}
    assert!(elsewhere());
}
