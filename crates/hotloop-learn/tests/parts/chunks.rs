//! How a minibatch is cut.

use hotloop_learn::ppo::chunks::spans;

#[test]
fn spans_cover_all_tiles_in_order_and_never_grow() {
    for most in [1, 2, 7, 32] {
        for tiles in 1..700 {
            let mut room = vec![0..0; most];
            let spans = spans(tiles, &mut room);
            assert_eq!((spans[0].start, spans[spans.len() - 1].end), (0, tiles));
            assert!(spans.windows(2).all(|pair| pair[0].end == pair[1].start));
            // But for rounding.
            assert!(spans.windows(2).all(|pair| pair[1].len() <= pair[0].len() + 1), "{tiles} {spans:?}");
        }
    }
}

#[test]
fn sixteen_threads_are_not_held_up_by_the_first() {
    let mut room = vec![0..0; 32];
    assert!(spans(256, &mut room)[0].len() <= 256 / 16);
    assert_eq!(spans(8, &mut room).len(), 8);
}
