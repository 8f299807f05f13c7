/* Serves an exported model to stdin, by Mica's C API: each line of numbers is
 * a row of the model's one input, of floats; its results are printed on a
 * line. */

#include <mica/mica.h>
#include <stdio.h>
#include <stdlib.h>

/* Prints and frees the error, if it is one; 1 if it is. */
static int failed(mica_error* error) {
  if (error == NULL) return 0;
  fprintf(stderr, "serve: %s\n", mica_error_message(error));
  mica_error_free(error);
  return 1;
}

/* How many numbers a request has. */
static int64_t row_size(const mica_value* input) {
  int64_t size = 1;
  for (int i = 0; i < input->rank; ++i) size *= input->dims[i];
  return size;
}

/* Reads so many numbers; 0 at the end of the file. */
static int read_row(float* row, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    if (scanf("%f", &row[i]) != 1) return 0;
  }
  return 1;
}

static void print_row(const mica_tensor* result) {
  const mica_view view = mica_tensor_view(result);
  int64_t count = 1;
  for (int i = 0; i < view.rank; ++i) count *= view.dims[i];
  const float* data = view.data;
  for (int64_t i = 0; i < count; ++i) {
    printf("%s%g", i > 0 ? " " : "", data[i]);
  }
  printf("\n");
}

static int serve(mica_model* model) {
  mica_value value;
  if (failed(mica_model_input(model, 0, &value))) return 1;
  if (mica_model_num_inputs(model) != 1 || mica_model_num_outputs(model) != 1 ||
      value.dtype != MICA_F32) {
    fprintf(stderr, "serve: wants a model of one f32 input and one output\n");
    return 1;
  }
  const int64_t size = row_size(&value);
  float* row = malloc((size_t)size * sizeof(float));
  if (row == NULL) return 1;
  const mica_view input = {row, MICA_F32, value.rank, value.dims, NULL};
  int status = 0;
  while (status == 0 && read_row(row, size)) {
    mica_tensor* result = NULL;
    status = failed(mica_model_run(model, &input, NULL, 0, NULL, &result));
    if (status == 0) print_row(result);
    mica_tensor_free(result);
  }
  free(row);
  return status;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: serve FOLDER < rows of numbers\n");
    return 2;
  }
  mica_options options = MICA_OPTIONS_INIT;
  options.frozen = 1;
  mica_model* model = NULL;
  if (failed(mica_model_load(argv[1], &options, &model))) return 1;
  const int status = serve(model);
  mica_model_free(model);
  return status;
}
