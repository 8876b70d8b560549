/* hotloop.h: how an env in C, C++, Rust, Zig or anything else that makes shared libraries is given to Hotloop.
 *
 * A library has one function, hotloop_env_table, that gives a table of what the env is and of the functions that play it.
 * `native:PATH` loads it, wherever a native env has a name. docs/compiled-envs.md is the guide, and examples/native_c has
 * an env with its build command.
 *
 * The rules:
 * - All that an env remembers is in `state`: state_bytes bytes, zeroed once, aligned, and moved about as plain bytes.
 *   It holds no pointers: snapshots, checkpoints and replays copy it.
 * - Functions are called on several threads at once, each with a state of its own. They share nothing that changes.
 * - What is random comes from `rng`, and from nothing else. Draws have numbers and no order: the same number twice gives
 *   the same draw. A trajectory is then a function of seed, options and actions.
 * - Functions return a status, and let no exception pass. A negative one is an error of the env: its episode is dropped,
 *   the env is reset, and the code is reported; the rest plays on.
 * - Everything that is not an output is read only. Outputs are zero when a function is called, unless it says otherwise.
 */
#ifndef HOTLOOP_H
#define HOTLOOP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of all that follows. It changes with every change of a struct or of a meaning. Libraries that were built for
 * version 1, whose table ends before `play`, are still taken. */
#define HOTLOOP_ABI 2

/* What a step returns. */
enum {
    HOTLOOP_RUNNING = 0, /* another step will follow */
    HOTLOOP_OVER = 1,    /* the episode is over for every agent; those whose task ended are marked in `terminated` */
    HOTLOOP_TIME_UP = 2  /* it is over by a time limit of the env's own: truncated, not terminated */
};

/* What an agent observes. */
enum {
    HOTLOOP_OBSERVE_NUMBERS = 1, /* float, in an array of observation_shape */
    HOTLOOP_OBSERVE_BYTES = 2,   /* uint8_t, in an array of observation_shape */
    HOTLOOP_OBSERVE_STATE = 3    /* one int64_t from 0 to observation_shape[0] - 1 */
};

/* What an agent decides. */
enum {
    HOTLOOP_CHOOSE = 1,      /* int32_t from 0 to action_choices[0] - 1; action_width is 1 */
    HOTLOOP_CHOOSE_EACH = 2, /* action_width of int32_t, the i-th from 0 to action_choices[i] - 1 */
    HOTLOOP_AMOUNTS = 3      /* action_width of float, the i-th from action_low[i] to action_high[i] */
};

/* The type of an option. */
enum {
    HOTLOOP_NUMBER = 1, /* value.number, from low to high */
    HOTLOOP_WHOLE = 2,  /* value.whole, from low to high */
    HOTLOOP_YES_NO = 3, /* value.whole, 0 or 1 */
    HOTLOOP_WORD = 4    /* value.whole, the index of one of `words` */
};

/* The type of a field of the state. */
enum { HOTLOOP_F32 = 1, HOTLOOP_F64 = 2, HOTLOOP_I32 = 3, HOTLOOP_I64 = 4, HOTLOOP_U8 = 5 };

/* The value of an option. */
typedef union {
    double number;
    int64_t whole;
} hotloop_value;

/* An option, which people set as env.NAME=VALUE. It may differ from env to env, and changes only between episodes. */
typedef struct {
    const char *name;  /* letters, digits and _ */
    const char *about; /* a sentence; may be null */
    uint32_t kind;
    uint32_t word_count;
    const char *const *words;
    hotloop_value value; /* the default */
    double low;
    double high;
} hotloop_option;

/* A part of the state that has a name: shown by `hotloop play`, read and set by get_state and set_state. */
typedef struct {
    const char *name;
    uint32_t kind;
    uint32_t count;
    uint64_t offset; /* in bytes; offsetof() tells */
} hotloop_field;

/* Where random numbers come from: the env's stream, which episode it plays, and which step of it (0 at reset). */
typedef struct {
    uint32_t lo;
    uint32_t hi;
    uint32_t episode;
    uint32_t step;
} hotloop_rng;

/* What an env is. Null and 0 stand for "none" or "the usual" where a comment says so. */
typedef struct {
    uint32_t abi;         /* HOTLOOP_ABI */
    uint32_t table_bytes; /* sizeof(hotloop_env) */
    const char *name;     /* letters, digits, _ and - */
    const char *about;    /* a sentence; may be null */

    uint64_t state_bytes;
    uint64_t state_alignment; /* 1, 2, 4, ... 64 */
    uint32_t state_version;   /* raise it when the state changes its meaning: older snapshots are then refused */
    uint32_t seats;           /* agents; each has a row of its own */

    uint32_t observation_kind;
    uint32_t observation_dims; /* 1 to 8 */
    const uint64_t *observation_shape;
    const float *observation_low;  /* a bound per element of the shape; null: none. Numbers only */
    const float *observation_high; /* the same */

    uint32_t action_kind;
    uint32_t action_width;
    const uint32_t *action_choices;
    const float *action_low;
    const float *action_high;

    uint32_t masked;    /* whether some choices are forbidden at times */
    uint32_t max_steps; /* the default of the option max_steps, which every env has: steps until truncation, 0: never */

    uint32_t term_count; /* parts of the reward, which is their sum (people may weigh them); 0: one, "reward" */
    uint32_t metric_count; /* what is measured once per episode; "success", 0 or 1, is one that is known */
    const char *const *terms;
    const char *const *metrics;

    uint32_t option_count;
    uint32_t field_count;
    const hotloop_option *options;
    const hotloop_field *fields; /* bytes that no field names are kept too */

    uint32_t step_nanoseconds; /* about what a step takes; it only decides how work is shared out; 0: unknown */
    uint32_t reserved;         /* 0 */

    /* Starts an episode. The state is that of the episode before. Returns 0. */
    int32_t (*reset)(void *state, const hotloop_value *options, const hotloop_rng *rng);

    /* Plays the actions of all agents, action_width numbers each. They are within their space, and allowed by the mask
     * that was shown last. `terms` has term_count floats per agent, `metrics` metric_count, and is read when an episode
     * is over. Returns one of HOTLOOP_RUNNING, _OVER and _TIME_UP. */
    int32_t (*step)(void *state, const hotloop_value *options, const hotloop_rng *rng, const void *actions, float *terms,
                    uint8_t *terminated, float *metrics);

    /* Shows the state: every agent's observation, one after the other; `mask`, a byte per choice and agent, all 1 when
     * it is called, null without masks; `valid`, a byte per agent, 1 when it is called: whether the agent decides now.
     * The observation is not cleared before. Returns 0. */
    int32_t (*observe)(const void *state, const hotloop_value *options, void *observation, uint8_t *mask,
                       uint8_t *valid);

    /* Whether a state that came from outside is a possible one: 0 if so. Null: all are. */
    int32_t (*check)(const void *state, const hotloop_value *options);

    /* The state in words, as UTF-8 text for people: writes up to `room` bytes, returns how many. Null: its fields. */
    int32_t (*render)(const void *state, const hotloop_value *options, char *text, uint64_t room);

    /* For speed: `step` and then `observe` of `count` envs that have the same options, to the same effect as one by one.
     * Null: one by one. Every argument is that of step or observe, for one env after the other; states lie as in a C array
     * (at multiples of state_bytes, rounded up to state_alignment). What step and observe would have returned for env i
     * goes to told[2 * i] and told[2 * i + 1]; an env whose step failed need not be shown. Where waiting[i] is not 0 the
     * env waits to be reset: nothing is done with it, and nothing told. */
    void (*play)(uint64_t count, void *states, const hotloop_value *options, const hotloop_rng *rngs, const void *actions,
                 float *terms, uint8_t *terminated, float *metrics, void *observations, uint8_t *masks, uint8_t *valid,
                 const uint32_t *waiting, int32_t *told);

    /* What a negative status means, as UTF-8 text for people: writes up to `room` bytes, returns how many. Called on any
     * thread, but rarely. Null: the status is told as a number. */
    int32_t (*explain)(int32_t status, char *text, uint64_t room);
} hotloop_env;

/* The one symbol that a library must have. The table stays as it is for as long as the process lives. */
const hotloop_env *hotloop_env_table(void);

/* Random numbers. They are the same bits as those of native envs and of compiled Python. */

typedef struct {
    uint32_t lo;
    uint32_t hi;
} hotloop_stream;

static inline uint32_t hotloop_mix(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

/* The stream of an index: unrelated to this one, and to those of other indices. */
static inline hotloop_stream hotloop_fold(hotloop_stream stream, uint32_t index) {
    uint32_t spread = (index + 1u) * 0xc13fa9a9u;
    hotloop_stream folded;
    folded.lo = stream.lo ^ hotloop_mix(stream.hi ^ spread);
    folded.hi = stream.hi ^ hotloop_mix(folded.lo + spread);
    return folded;
}

/* The draws of this step. */
static inline hotloop_stream hotloop_draws(const hotloop_rng *rng) {
    hotloop_stream env;
    env.lo = rng->lo;
    env.hi = rng->hi;
    return hotloop_fold(hotloop_fold(env, rng->episode), rng->step);
}

/* Draws that stay the same for the whole episode. */
static inline hotloop_stream hotloop_episode_draws(const hotloop_rng *rng) {
    hotloop_stream env;
    env.lo = rng->lo;
    env.hi = rng->hi;
    return hotloop_fold(hotloop_fold(env, rng->episode), UINT32_MAX);
}

/* 32 random bits. */
static inline uint32_t hotloop_bits(hotloop_stream stream, uint32_t draw) {
    uint32_t x = stream.lo + draw * 0x9e3779b9u;
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x ^= stream.hi;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

/* A multiple of 2^-24 from 0 up to, but not including, 1. */
static inline float hotloop_uniform(hotloop_stream stream, uint32_t draw) {
    return (float)(hotloop_bits(stream, draw) >> 8) * (1.0f / 16777216.0f);
}

/* One of 0, ..., n - 1; n is not 0. */
static inline uint32_t hotloop_below(hotloop_stream stream, uint32_t draw, uint32_t n) {
    return (uint32_t)(((uint64_t)hotloop_bits(stream, draw) * n) >> 32);
}

#ifdef __cplusplus
}
#endif

#endif
