// The code of a model of any family.
#pragma once

#include "tessera/model/family.hpp"

namespace tessera::model {

// The units of the tables, null where the rank does not hold them; spec, buckets and context must outlive the
// model.
Model make(const spec::Model& spec, const program::Tables& tables, const RankModel& held);

// Logits of a micro-batch, or of these rows of it, with Full of every bucket gathered: for generation and for
// comparing with other implementations. Ranks may share products, but neither stages nor tokens.
Tensor logits(Model& model, const program::Tables& tables, const Batch& batch, const Tensor& rows = {});

}  // namespace tessera::model
