#include "tessera/model/attention.hpp"

#include "tessera/model/cache.hpp"
#include "tessera/parallel/context_attention.hpp"

namespace tessera::model {

Tensor attend(const parallel::Heads& heads, const Batch& batch, const AttentionLayer& layer,
              const parallel::ContextAxes& context, collective::Result result) {
  const bool goes_on = batch.cache && batch.cache->is_filled();
  if (batch.cache && !goes_on) batch.cache->begin(heads, layer.layer);
  parallel::Documents seen = batch.documents;
  seen.window = layer.window;
  const Tensor out = goes_on ? batch.cache->attend(heads, layer.layer, layer.window)
                             : parallel::context_attention(heads, context, std::move(seen), result);
  return out.transpose(1, 2).reshape({heads.q.size(0) * heads.q.size(2), -1});
}

Tensor positions_after_cache(const Batch& batch) {
  return batch.cache && batch.cache->is_filled() ? batch.cache->lengths_B() : Tensor();
}

}  // namespace tessera::model
