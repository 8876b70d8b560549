use hotloop_core::options::Value;
use hotloop_core::space::Action;

use crate::play::Play;

fn options(delay: i64, cues: i64, symbols: i64) -> [(&'static str, Value); 3] {
    [("delay", Value::Int(delay)), ("cues", Value::Int(cues)), ("symbols", Value::Int(symbols))]
}

#[test]
fn the_cue_is_shown_once_and_asked_for_after_the_delay() {
    let mut play = Play::new("recall", &options(3, 4, 1), 1);
    play.set(&[("cue", &[2]), ("time", &[0])]);
    assert_eq!(play.seen(0), [0.0, 0.0, 1.0, 0.0, 0.0]);
    for _ in 0..3 {
        play.step(&[1]);
        assert_eq!(play.seen(0), [0.0; 5]);
        assert_eq!((play.reward[0], play.terminated[0]), (0.0, false));
    }
    play.step(&[1]);
    assert_eq!(play.seen(0), [0.0, 0.0, 0.0, 0.0, 1.0]);
    play.step(&[2]);
    assert_eq!((play.reward[0], play.terminated[0]), (1.0, true));
}

#[test]
fn a_wrong_answer_earns_nothing() {
    let mut play = Play::new("recall", &options(1, 4, 1), 1);
    play.set(&[("cue", &[2]), ("time", &[2])]);
    play.step(&[3]);
    assert_eq!((play.reward[0], play.terminated[0]), (0.0, true));
}

#[test]
fn each_right_symbol_earns_its_share() {
    let mut play = Play::new("recall", &options(1, 3, 4), 1);
    assert_eq!(play.pool.spec().action, Action::MultiDiscrete { n: vec![3; 4] });
    play.set(&[("cue", &[0, 1, 2, 0]), ("time", &[0])]);
    let hot = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]].concat();
    assert_eq!(play.seen(0), [hot, vec![0.0]].concat());
    for (answer, share) in [([0, 1, 2, 0], 1.0), ([0, 1, 2, 1], 0.75), ([1, 2, 0, 1], 0.0)] {
        play.set(&[("time", &[2])]);
        play.step(&answer);
        assert_eq!(play.reward[0], share);
    }
}

#[test]
fn all_cues_come_up_equally_often() {
    let mut play = Play::new("recall", &options(8, 5, 2), 5000);
    let cues = play.get("cue");
    for symbol in 0..5 {
        for place in 0..2 {
            let count = cues.iter().skip(place).step_by(2).filter(|cue| **cue == symbol).count();
            assert!((850..1150).contains(&count), "{count} of 5000, about a fifth expected");
        }
    }
}

#[test]
fn success_is_counted() {
    let mut play = Play::new("recall", &options(1, 2, 1), 1);
    for (answer, success) in [(0, 1.0), (1, 0.0)] {
        play.reset();
        play.set(&[("cue", &[0]), ("time", &[2])]);
        play.step(&[answer]);
        let mut recent = Vec::new();
        play.pool.group_states(|group_state| {
            let mut totals = hotloop_core::episodes::Totals::new(2);
            group_state.episodes.report(&mut totals, &mut recent);
            group_state.episodes.clear();
        });
        assert_eq!(recent[0].extra, [success, success], "the term's sum, then the metric");
    }
}

#[test]
fn impossible_states_are_refused() {
    let mut play = Play::new("recall", &options(2, 4, 1), 1);
    assert!(play.refused(&[("cue", &[4])]).contains("expected 0 to 3"));
    assert!(play.refused(&[("time", &[5])]).contains("expected 0 to 4"));
    assert!(play.refused(&[("time", &[-1])]).contains("expected 0 to 4"));
    play.set(&[("time", &[4])]);
    play.step(&[0]);
    assert!(play.terminated[0], "a finished episode stays finished");
}
