/* Mica's C API: loads an exported model and runs it, without Python.
 *
 *   mica_model* model = NULL;
 *   mica_options options = MICA_OPTIONS_INIT;
 *   options.frozen = 1;
 *   mica_error* error = mica_model_load("model", &options, &model);
 *   ...
 *   mica_tensor* result = NULL;
 *   error = mica_model_run(model, &input, NULL, 0, NULL, &result);
 *
 * ABI. A function here keeps its meaning and its arguments; structs that may
 * grow begin with their size, and enums only get new values at their end.
 * mica_abi_version() is raised only if that were ever broken, and the library's
 * file name with it.
 *
 * Errors. A function that can fail returns NULL if it did not, else an error
 * that the caller frees; what it gives is then left as it was. Null where
 * nothing says that it may be is InvalidArgument. Errors name the file, the
 * input or the op, what was wanted and what came.
 *
 * Threads. All functions may be called by several threads at once on one
 * model; runs at the same time share the weights and what was decided, and
 * nothing else. An error or a tensor is one thread's at a time.
 */

#ifndef MICA_SDK_MICA_H_
#define MICA_SDK_MICA_H_

#include <stddef.h>
#include <stdint.h>

#if defined(MICA_BUILDS_LIBRARY)
#define MICA_API __attribute__((visibility("default")))
#else
#define MICA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define MICA_ABI_VERSION 0

/* Of the library that is loaded; to be compared with MICA_ABI_VERSION. */
MICA_API int32_t mica_abi_version(void);
/* "0.1.0". */
MICA_API const char* mica_version(void);

/* -- Errors ------------------------------------------------------------- */

/* Numbers of a fixed size, so that an unknown one is no undefined behaviour. */
typedef int32_t mica_code;
enum {
  MICA_OK = 0,
  MICA_CANCELLED = 1,
  MICA_UNKNOWN = 2,
  MICA_INVALID_ARGUMENT = 3,
  MICA_NOT_FOUND = 5,
  MICA_ALREADY_EXISTS = 6,
  MICA_PERMISSION_DENIED = 7,
  MICA_RESOURCE_EXHAUSTED = 8,
  MICA_FAILED_PRECONDITION = 9,
  MICA_ABORTED = 10,
  MICA_OUT_OF_RANGE = 11,
  MICA_UNIMPLEMENTED = 12,
  MICA_INTERNAL = 13,
  MICA_UNAVAILABLE = 14,
  MICA_DATA_LOSS = 15
};

typedef struct mica_error mica_error;

/* MICA_OK for null. */
MICA_API mica_code mica_error_code(const mica_error* error);
/* "" for null; valid until the error is freed. */
MICA_API const char* mica_error_message(const mica_error* error);
MICA_API void mica_error_free(mica_error* error);

/* -- Tensors ------------------------------------------------------------ */

typedef int32_t mica_dtype;
enum {
  MICA_BOOL = 0, /* One byte, 0 or 1. */
  MICA_U8 = 1,
  MICA_I8 = 2,
  MICA_I16 = 3,
  MICA_I32 = 4,
  MICA_I64 = 5,
  MICA_F16 = 6,
  MICA_BF16 = 7,
  MICA_F32 = 8,
  MICA_F64 = 9,
  MICA_C64 = 10, /* Two floats, the real part first. */
  MICA_C128 = 11
};

/* Bytes of one element; 0 for a number that is no dtype. */
MICA_API int64_t mica_dtype_bytes(mica_dtype dtype);
/* "f32"; NULL for a number that is no dtype. */
MICA_API const char* mica_dtype_name(mica_dtype dtype);

/* Somebody's memory, borrowed. */
typedef struct mica_view {
  void* data; /* The element with all indices 0. */
  mica_dtype dtype;
  int32_t rank;
  const int64_t* dims;    /* `rank` of them; may be null for rank 0. */
  const int64_t* strides; /* In elements; null: row-major. */
} mica_view;

/* Memory with an owner: a result. */
typedef struct mica_tensor mica_tensor;

/* What the tensor holds; valid until it is freed. Row-major unless the program
 * says otherwise; `strides` are always given. */
MICA_API mica_view mica_tensor_view(const mica_tensor* tensor);
/* Null is fine. */
MICA_API void mica_tensor_free(mica_tensor* tensor);

/* -- Models ------------------------------------------------------------- */

typedef struct mica_options {
  size_t struct_size;      /* sizeof(mica_options), by MICA_OPTIONS_INIT. */
  const char* weights;     /* A safetensors file instead of the folder's own;
                              null: that. */
  int32_t threads;         /* For one run; 1 by default. */
  int32_t queue;           /* Not 0: the threads take steps, and pieces of wide
                              ones, from a queue; else each step is cut by
                              OpenMP. */
  int32_t frozen;          /* Not 0: weights never change; packed once. */
  int32_t max_prepared;    /* Sizes that are kept; 0: 64. */
  int32_t max_runs;        /* At a time; further callers wait. 0: any number. */
  int64_t max_arena_bytes; /* Memory of all runs; 0: any. */
  int32_t map_weights;     /* Not 0: weights lie in the file's pages, which
                              processes share. Nobody may shorten the file
                              meanwhile; to replace it by another is fine. */
} mica_options;

#define MICA_OPTIONS_INIT \
  { sizeof(mica_options), NULL, 1, 0, 0, 0, 0, 0, 0 }

typedef struct mica_model mica_model;

/* Loads what mica.export() wrote to a folder. `options` may be null. */
MICA_API mica_error* mica_model_load(const char* folder,
                                     const mica_options* options,
                                     mica_model** model);
/* Waits for no run: none may be under way. Null is fine. */
MICA_API void mica_model_free(mica_model* model);

/* An input, output or variable. */
typedef struct mica_value {
  const char* name; /* Valid as long as the model. */
  mica_dtype dtype;
  int32_t rank;
  const int64_t* dims;        /* -1: differs from run to run. */
  const char* const* symbols; /* By dim: the name of one that differs, equal
                                 names being equal sizes; else null. */
} mica_value;

MICA_API int32_t mica_model_num_inputs(const mica_model* model);
MICA_API int32_t mica_model_num_outputs(const mica_model* model);
MICA_API int32_t mica_model_num_variables(const mica_model* model);
/* OutOfRange for an index that there is not. */
MICA_API mica_error* mica_model_input(const mica_model* model, int32_t index,
                                      mica_value* value);
MICA_API mica_error* mica_model_output(const mica_model* model, int32_t index,
                                       mica_value* value);
MICA_API mica_error* mica_model_variable(const mica_model* model, int32_t index,
                                         mica_value* value);

/* A variable's memory: to be read, or written while no run is under way. That
 * of a frozen model may be packed already: what is written then is not seen,
 * and the call is FailedPrecondition once there was a run. */
MICA_API mica_error* mica_model_variable_view(mica_model* model, int32_t index,
                                              mica_view* view);
/* From now on the variable lies in the caller's memory, which has its type and
 * must outlive the model. While no run is under way. */
MICA_API mica_error* mica_model_bind_variable(mica_model* model, int32_t index,
                                              const mica_view* view);

/* -- Runs --------------------------------------------------------------- */

/* Ends a run from another thread. */
typedef struct mica_cancel mica_cancel;
MICA_API mica_cancel* mica_cancel_new(void); /* Null without memory. */
/* The run that has it, and all later ones until the reset, end with
 * MICA_CANCELLED before their next step. */
MICA_API void mica_cancel_set(mica_cancel* cancel);
MICA_API void mica_cancel_reset(mica_cancel* cancel);
MICA_API void mica_cancel_free(mica_cancel* cancel);

/* Runs the model on its inputs, in their order. Results are new tensors, which
 * the caller frees: of the `num_fetches` values named by `fetches`, or, if that
 * is 0, of the model's outputs. Variables that the model updates are changed
 * when all steps have succeeded, or not at all. `cancel` may be null.
 * The first run on given sizes decides how these run; later ones only run. */
MICA_API mica_error* mica_model_run(mica_model* model, const mica_view* inputs,
                                    const char* const* fetches,
                                    int32_t num_fetches, mica_cancel* cancel,
                                    mica_tensor** results);
/* Decides beforehand how inputs of these sizes will run; their memory isn't
 * read, and may be null. */
MICA_API mica_error* mica_model_prepare(mica_model* model,
                                        const mica_view* inputs);

typedef struct mica_stats {
  size_t struct_size; /* sizeof(mica_stats), set by the caller. */
  int64_t runs;       /* That ended well. */
  int64_t failures;
  int64_t run_nanoseconds;  /* Of all runs together. */
  int64_t wait_nanoseconds; /* For a turn or for memory. */
  int64_t running;          /* Now. */
  int64_t prepared;         /* Sizes that are kept. */
  int64_t jobs;             /* Runs' own memory that is kept: how many, */
  int64_t arena_bytes;      /* and how much. */
} mica_stats;

MICA_API mica_error* mica_model_stats(const mica_model* model,
                                      mica_stats* stats);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MICA_SDK_MICA_H_ */
