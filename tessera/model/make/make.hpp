// The model of a run, of whichever family.
#pragma once

#include "tessera/model/family.hpp"

namespace tessera::model {

// The units of the tables, null where the rank does not hold them; run, buckets and context must outlive the
// model.
Model make(const spec::Run& run, const program::Tables& tables, const RankModel& held);

// All logits of a micro-batch, of a model that is whole on this rank, with Full of every bucket gathered: for
// generation and for comparing with other implementations.
Tensor logits(Model& model, const program::Tables& tables, const Batch& batch);

}  // namespace tessera::model
