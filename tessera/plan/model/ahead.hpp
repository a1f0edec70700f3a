// A block after the last that predicts the token after the next one, from what the head reads and from the
// embedding of the next token. It is a part of the head: it shares the tables of embedding and head, and its
// loss is counted on its own.
#pragma once

#include "tessera/plan/model/family.hpp"

namespace tessera::plan {

// Adds to the head's pieces and parameters; those parameters that `block` itself has are the caller's to add.
// Of the head's pieces those of the block alone are made of steps.
void add_ahead(ModelPlan& plan, const spec::Model& model, const Sizes& s, const program::Unit& block);

}  // namespace tessera::plan
