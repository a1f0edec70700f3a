// A layer's weight and work in the context that autograd keeps until its derivative is asked for. They must
// outlive it, as anything kept by its address.
#pragma once

#include "tessera/shard/weight.hpp"

namespace tessera::shard {

template <typename Context, typename T>
void keep_address(Context* ctx, const char* name, const T* address) {
  ctx->saved_data[name] = reinterpret_cast<std::int64_t>(address);
}
template <typename T, typename Context>
T* kept_address(Context* ctx, const char* name) {
  return reinterpret_cast<T*>(ctx->saved_data[name].toInt());
}

template <typename Context>
void keep(Context* ctx, Weight& weight, WeightWork& work) {
  keep_address(ctx, "weight", &weight);
  keep_address(ctx, "work", &work);
}
template <typename Context>
Weight& kept_weight(Context* ctx) {
  return *kept_address<Weight>(ctx, "weight");
}
template <typename Context>
WeightWork& kept_work(Context* ctx) {
  return *kept_address<WeightWork>(ctx, "work");
}

}  // namespace tessera::shard
