//! Polling of cancel tokens.

use std::thread;

use hotloop_learn::cancel::CancelToken;

#[test]
fn only_the_calling_thread_polls_and_all_threads_see_the_answer() {
    let caller = thread::current().id();
    let poll = || {
        assert_eq!(thread::current().id(), caller);
        true
    };
    let cancel = CancelToken::new(&poll);
    let elsewhere = || thread::scope(|scope| scope.spawn(|| cancel.is_cancelled()).join().unwrap());
    assert!(!cancel.is_cancelled(), "short work is not polled");
    assert!(!elsewhere());
    while !cancel.is_cancelled() {}
    assert!(elsewhere());
}
