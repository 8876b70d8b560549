//! How a minibatch is cut into chunks: each makes a gradient of its own, and these are added in order, so that the sum
//! does not depend on who made them.

use std::ops::Range;

/// Cuts `tiles` into spans, at most as many as there is room for.
///
/// Where there are many, the first are the largest and each is smaller than the one before by the same amount: threads
/// that take them in turn are done at almost the same time, even when one of them is slower.
pub fn spans(tiles: usize, room: &mut [Range<usize>]) -> &[Range<usize>] {
    let most = room.len();
    let edge = |i: usize| {
        if tiles <= most { i.min(tiles) } else { tiles * i * (2 * most + 1 - i) / (most * (most + 1)) }
    };
    let mut count = 0;
    for span in (0..most).map(|i| edge(i)..edge(i + 1)).filter(|span| !span.is_empty()) {
        room[count] = span;
        count += 1;
    }
    &room[..count]
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
