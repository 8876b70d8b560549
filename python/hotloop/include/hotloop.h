/* hotloop.h: the interface for envs written in C, C++, Rust, Zig or any other language that builds shared libraries.
 *
 * A library exports one function, hotloop_env_table, which returns a description of the env and its functions.
 * `native:PATH` loads it, wherever the name of a native env is accepted. docs/compiled-envs.md is the guide, and examples/native_c has
 * an env with its build command.
 *
 * The rules:
 * - The whole state of an env is in `state`: state_bytes bytes, zeroed once, aligned, and moved as plain bytes.
 *   It must not contain pointers: snapshots, checkpoints and replays copy it.
 * - Functions are called on several threads at once, each with its own state. They must not share mutable data.
 * - All randomness comes from `rng`. Draws are indexed and have no order: the same index returns the same number.
 *   A trajectory is then a function of seed, options and actions.
 * - Functions return a status and must not throw exceptions. A negative status is an error of the env: its episode is
 *   cut, the env is reset, and the status is reported; the other envs continue.
 * - All arguments but outputs are read-only. Outputs are zero when a function is called, unless stated otherwise.
 */
#ifndef HOTLOOP_H
#define HOTLOOP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface; it changes whenever a struct or a meaning changes. Libraries built for version 1, whose table
 * ends before `play`, are still accepted. */
#define HOTLOOP_ABI 2

/* Status that a step returns. */
enum {
    HOTLOOP_RUNNING = 0, /* another step will follow */
    HOTLOOP_OVER = 1,    /* the episode is over for every agent; those whose task ended are marked in `terminated` */
    HOTLOOP_TIME_UP = 2  /* the env's own time limit has ended it: truncated, not terminated */
};

/* Observation spaces. */
enum {
    HOTLOOP_OBSERVE_NUMBERS = 1, /* float, in an array of observation_shape */
    HOTLOOP_OBSERVE_BYTES = 2,   /* uint8_t, in an array of observation_shape */
    HOTLOOP_OBSERVE_STATE = 3    /* one int64_t from 0 to observation_shape[0] - 1 */
};

/* Action spaces. */
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

/* An option, which users set as env.NAME=VALUE. It may differ between envs, and changes only between episodes. */
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

/* A named field of the state: shown by `hotloop play`, read and set by get_state and set_state. */
typedef struct {
    const char *name;
    uint32_t kind;
    uint32_t count;
    uint64_t offset; /* in bytes; use offsetof() */
} hotloop_field;

/* Source of random numbers: the env's stream, the index of the episode, and of the step in it (0 at reset). */
typedef struct {
    uint32_t lo;
    uint32_t hi;
    uint32_t episode;
    uint32_t step;
} hotloop_rng;

/* Description of an env. Null and 0 mean "none" or "default" where a comment says so. */
typedef struct {
    uint32_t abi;         /* HOTLOOP_ABI */
    uint32_t table_bytes; /* sizeof(hotloop_env) */
    const char *name;     /* letters, digits, _ and - */
    const char *about;    /* a sentence; may be null */

    uint64_t state_bytes;
    uint64_t state_alignment; /* 1, 2, 4, ... 64 */
    uint32_t state_version;   /* increase it when the meaning of the state changes: older snapshots are then rejected */
    uint32_t seats;           /* number of agents; each has its own row */

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

    uint32_t term_count; /* reward terms; the reward is their weighted sum; 0: one, "reward" */
    uint32_t metric_count; /* metrics, measured once per episode; "success" (0 or 1) has a known meaning */
    const char *const *terms;
    const char *const *metrics;

    uint32_t option_count;
    uint32_t field_count;
    const hotloop_option *options;
    const hotloop_field *fields; /* bytes outside of all fields are kept as well */

    uint32_t step_nanoseconds; /* approximate duration of a step; only determines how work is split; 0: unknown */
    uint32_t reserved;         /* 0 */

    /* Starts an episode. The state still holds that of the previous episode. Returns 0. */
    int32_t (*reset)(void *state, const hotloop_value *options, const hotloop_rng *rng);

    /* Applies the actions of all agents, action_width numbers each. They are within the action space, and allowed by the
     * last mask. `terms` has term_count floats per agent, `metrics` metric_count, and is read when an episode
     * is over. Returns one of HOTLOOP_RUNNING, _OVER and _TIME_UP. */
    int32_t (*step)(void *state, const hotloop_value *options, const hotloop_rng *rng, const void *actions, float *terms,
                    uint8_t *terminated, float *metrics);

    /* Writes every agent's observation, one after the other; `mask`, a byte per choice and agent, all 1 when
     * it is called, null without masks; `valid`, a byte per agent, 1 when it is called: whether the agent decides now.
     * The observation is not zeroed before. Returns 0. */
    int32_t (*observe)(const void *state, const hotloop_value *options, void *observation, uint8_t *mask,
                       uint8_t *valid);

    /* Validates a state that was set from outside: returns 0 if it is possible. Null: all states are. */
    int32_t (*check)(const void *state, const hotloop_value *options);

    /* Renders the state as UTF-8 text: writes up to `room` bytes, returns how many. Null: the fields are shown. */
    int32_t (*render)(const void *state, const hotloop_value *options, char *text, uint64_t room);

    /* Optional, for speed: `step` and then `observe` of `count` envs with the same options, with the same results as one by
     * one. Null: one by one. Every argument is that of step or observe, for one env after the other; states lie as in a C array
     * (at multiples of state_bytes, rounded up to state_alignment). The statuses of step and observe of env i go to
     * status[2 * i] and status[2 * i + 1]; an env whose step failed need not be observed. Envs with waiting[i] != 0 wait for
     * a reset: they are skipped, their statuses included. */
    void (*play)(uint64_t count, void *states, const hotloop_value *options, const hotloop_rng *rngs, const void *actions,
                 float *terms, uint8_t *terminated, float *metrics, void *observations, uint8_t *masks, uint8_t *valid,
                 const uint32_t *waiting, int32_t *status);

    /* Explains a negative status as UTF-8 text: writes up to `room` bytes, returns how many. Called rarely, on any thread.
     * Null: the status is reported as a number. */
    int32_t (*explain)(int32_t status, char *text, uint64_t room);
} hotloop_env;

/* The symbol that a library must export. The table must stay valid and unchanged as long as the process lives. */
const hotloop_env *hotloop_env_table(void);

/* Random numbers: the same bits as those of native envs and of compiled Python envs. */

typedef struct {
    uint32_t lo;
    uint32_t hi;
} hotloop_stream;

static inline uint32_t hotloop_mix(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

/* The stream of an index: independent of this stream and of those of other indices. */
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
