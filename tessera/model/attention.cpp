#include "tessera/model/attention.hpp"

#include "tessera/base/error.hpp"
#include "tessera/parallel/context_attention.hpp"

namespace tessera::model {

namespace {
void extend(Cache& cache, parallel::Heads& heads, std::size_t layer) {
  const auto append = [&](std::vector<Tensor>& kept, Tensor& fresh) {
    if (layer == kept.size())
      kept.push_back(fresh);
    else
      kept[layer] = fresh = tensor::concatenate({kept[layer], fresh}, 2);
  };
  append(cache.keys, heads.k);
  append(cache.values, heads.v);
}
}  // namespace

std::int64_t num_cached(const Batch& batch, std::size_t layer) {
  return batch.cache && layer < batch.cache->keys.size() ? batch.cache->keys[layer].size(2) : 0;
}

Tensor attend(parallel::Heads heads, const Batch& batch, std::size_t layer,
              const parallel::ContextAxes& context) {
  const std::int64_t before = num_cached(batch, layer), positions = heads.q.size(2);
  TESSERA_CHECK(before == 0 || positions == 1, "a cache is extended by one position at a time, not by ",
                positions);
  if (batch.cache) extend(*batch.cache, heads, layer);
  const Tensor out = before > 0 ? tensor::attention(heads.q, heads.k, heads.v, /*causal=*/false)
                                : parallel::context_attention(heads, context, {batch.documents_BS});
  return out.transpose(1, 2).reshape({heads.q.size(0) * positions, -1});
}

}  // namespace tessera::model
