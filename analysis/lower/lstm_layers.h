#ifndef MICA_ANALYSIS_LOWER_LSTM_LAYERS_H_
#define MICA_ANALYSIS_LOWER_LSTM_LAYERS_H_

#include "analysis/lower/tape.h"

namespace mica {

// Has LSTM layers that train be Mica's own: aten.mkldnn_rnn_layer keeps what
// its backward pass wants in a form that only ATen knows. A layer whose kept
// memory goes to such passes of this tape alone, or nowhere, becomes
// mica.lstm_layer, and they mica.lstm_layer_backward; others stay ATen's.
void UseOwnLstmLayers(Tape& tape);

}  // namespace mica

#endif  // MICA_ANALYSIS_LOWER_LSTM_LAYERS_H_
