//! Laws of the state of every native env.

use hotloop_core::group::Autoreset;
use hotloop_core::options::Value;

use crate::play::{Play, text};

fn everyone() -> Vec<(&'static str, Vec<(&'static str, Value)>)> {
    let yes = Value::Bool(true);
    vec![
        ("frozen-lake", vec![("map", text("8x8"))]),
        ("cliff-walking", vec![("slippery", yes.clone())]),
        ("taxi", vec![("rainy", yes.clone()), ("fickle", yes)]),
        ("tictactoe", vec![]),
        ("tictactoe", vec![("opponent", text("perfect")), ("observation", text("board"))]),
        ("tictactoe", vec![("opponent", text("self"))]),
        ("recall", vec![("symbols", Value::Int(3)), ("delay", Value::Int(2))]),
        ("catch", vec![("visible", Value::Int(1))]),
        ("tag", vec![("seats", Value::Int(5)), ("players", Value::Int(4)), ("max_steps", Value::Int(20))]),
        ("cage2", vec![("red", text("mix")), ("green", Value::Bool(true)), ("lengths", Value::Ints(vec![30, 50]))]),
        ("cage2", vec![("red", text("meander")), ("actions", text("compact")), ("features", text("memory"))]),
        ("tag", vec![("observation", text("grid")), ("size", Value::Int(5))]),
    ]
}

type Shown = (Vec<u64>, Vec<f32>, Vec<bool>, Vec<bool>, Vec<bool>, Vec<bool>, Vec<f32>);

fn play_on(play: &mut Play, steps: usize) -> Vec<Shown> {
    let mut shown = Vec::new();
    for step in 0..steps {
        let actions = play.any_actions(step);
        play.step(&actions);
        let (terminated, truncated) = (play.terminated.clone(), play.truncated.clone());
        let (valid, mask, infos) = (play.valid.clone(), play.mask.clone(), play.infos.clone());
        shown.push((play.all_seen().to_vec(), play.reward.clone(), terminated, truncated, valid, mask, infos));
    }
    shown
}

#[test]
fn a_restored_env_plays_on_as_before() {
    for (name, options) in everyone() {
        for autoreset in [Autoreset::NextStep, Autoreset::SameStep] {
            let mut play = Play::with(name, &options, 16, autoreset);
            for steps in [3, 50] {
                play_on(&mut play, steps);
                let snapshot = play.pool.snapshot().expect("a snapshot");
                let before = play_on(&mut play, 60);
                play.restore(&snapshot);
                assert!(before == play_on(&mut play, 60), "{name} {options:?}");

                let mut other = Play::with(name, &options, 16, autoreset);
                other.restore(&snapshot);
                assert!(before == play_on(&mut other, 60), "{name} {options:?} in another pool");
            }
        }
    }
}

#[test]
fn games_depend_on_the_seed_and_nothing_else() {
    for (name, options) in everyone() {
        let play = |seed: u64| {
            let mut play = Play::with(name, &options, 16, Autoreset::SameStep);
            play.seed(seed);
            play_on(&mut play, 100)
        };
        assert!(play(1) == play(1), "{name} {options:?}");
        assert!(play(1) != play(2), "{name} {options:?}");
    }
}
