#include "tessera/model/attention.hpp"

#include "tessera/model/cache.hpp"
#include "tessera/parallel/context_attention.hpp"

namespace tessera::model {

Tensor attend(const parallel::Heads& heads, const Batch& batch, std::size_t layer,
              const parallel::ContextAxes& context) {
  const Tensor out = batch.cache ? batch.cache->attend(heads, layer)
                                 : parallel::context_attention(heads, context, batch.documents);
  return out.transpose(1, 2).reshape({heads.q.size(0) * heads.q.size(2), -1});
}

Tensor positions_after_cache(const Batch& batch) {
  return batch.cache && batch.cache->is_filled() ? batch.cache->lengths_B() : Tensor();
}

}  // namespace tessera::model
