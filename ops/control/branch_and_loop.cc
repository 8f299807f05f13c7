// Branches, loops and calls. Their bodies give the types of their results.

#include "ops/control/families.h"

namespace mica {

void RegisterControlOps(OpRegistry& registry) {
  registry.Add(
      OpDef("mica::if(Tensor predicate, Tensor[] operands) -> Tensor[]")
          .Doc("What `then` returns of the operands if the predicate, one "
               "bool, is true, else what `else` does. Only that one runs."));
  registry.Add(
      OpDef("mica::while(Tensor[] initial, Tensor[] invariants) -> Tensor[]")
          .Doc("Carries values, at first the initial ones, from round to "
               "round: as long as `cond` returns true of them and the "
               "invariants, what `body` returns of them is carried next. "
               "Gives the last."));
  registry.Add(OpDef("mica::call(Tensor[] operands) -> Tensor[]")
                   .Doc("What a function gives of the operands. All calls of "
                        "it share its one body."));
}

}  // namespace mica
