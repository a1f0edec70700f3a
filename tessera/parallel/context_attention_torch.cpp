#include "tessera/parallel/context_attention.hpp"

#include <torch/csrc/autograd/custom_function.h>

#include "tessera/base/error.hpp"
#include "tessera/collective/rows.hpp"
#include "tessera/program/ir/context_parallel.hpp"

namespace tessera::parallel {

namespace {

using collective::Group;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kHeadDim = 1, kPositionDim = 2;  // of [B,N,S,D]

Tensor repeated(const Tensor& t_BKSD, std::int64_t times) {
  if (times == 1) return t_BKSD;
  const auto s = t_BKSD.sizes();
  return t_BKSD.unsqueeze(2).expand({s[0], s[1], times, s[2], s[3]}).flatten(1, 2);
}

// The derivative of repeated.
Tensor summed(const Tensor& t_BKSD, std::int64_t times) {
  if (times == 1) return t_BKSD;
  const auto s = t_BKSD.sizes();
  return t_BKSD.reshape({s[0], s[1] / times, times, s[2], s[3]}).sum(2);
}

// Heads for positions, in one all-to-all of q, k and v side by side, and back.
class HeadExchange {
 public:
  HeadExchange(const Group& group, std::int64_t query_heads, std::int64_t kv_heads)
      : group_(group),
        repeats_(program::exchanged_kv_heads(query_heads, kv_heads, group.size()) / kv_heads),
        queries_(query_heads / group.size()),
        keys_(repeats_ * kv_heads / group.size()) {}

  // Of few positions and all heads.
  Heads longer(const Heads& heads) const {
    if (group_.size() == 1) return heads;
    const Tensor k = repeated(heads.k, repeats_), v = repeated(heads.v, repeats_);
    std::vector<Tensor> parts;  // those of the first rank, then those of the next
    for (std::int64_t rank = 0; rank < group_.size(); ++rank) {
      parts.push_back(heads.q.narrow(kHeadDim, rank * queries_, queries_));
      parts.push_back(k.narrow(kHeadDim, rank * keys_, keys_));
      parts.push_back(v.narrow(kHeadDim, rank * keys_, keys_));
    }
    return parted(longer(tensor::concatenate(parts, kHeadDim)), 0);
  }
  // Of gradients: those of repeated heads are summed.
  Heads shorter(const Heads& heads) const {
    if (group_.size() == 1) return heads;
    const Tensor all = shorter(tensor::concatenate({heads.q, heads.k, heads.v}, kHeadDim));
    std::vector<Tensor> q, k, v;
    for (std::int64_t rank = 0; rank < group_.size(); ++rank) {
      const Heads of_rank = parted(all, rank * (queries_ + 2 * keys_));
      q.push_back(of_rank.q), k.push_back(of_rank.k), v.push_back(of_rank.v);
    }
    return {tensor::concatenate(q, kHeadDim), summed(tensor::concatenate(k, kHeadDim), repeats_),
            summed(tensor::concatenate(v, kHeadDim), repeats_)};
  }

  Tensor longer(const Tensor& t) const {
    return group_.size() == 1 ? t : collective::resharded(t, group_, kPositionDim, kHeadDim);
  }
  Tensor shorter(const Tensor& t) const {
    return group_.size() == 1 ? t : collective::resharded(t, group_, kHeadDim, kPositionDim);
  }

 private:
  Heads parted(const Tensor& all, std::int64_t first) const {
    return {all.narrow(kHeadDim, first, queries_), all.narrow(kHeadDim, first + queries_, keys_),
            all.narrow(kHeadDim, first + queries_ + keys_, keys_)};
  }

  Group group_;
  std::int64_t repeats_, queries_, keys_;  // heads of one rank after the exchange
};

// Constants of the forward that the backward needs again.
struct Setting final : torch::CustomClassHolder {
  Setting(ContextAxes context_axes, Documents of_samples, std::int64_t num_query_heads,
          std::int64_t num_kv_heads)
      : axes(std::move(context_axes)),
        documents(std::move(of_samples)),
        exchange(axes.heads.group, num_query_heads, num_kv_heads) {}

  ContextAxes axes;
  Documents documents;
  HeadExchange exchange;
};

struct ContextAttention : torch::autograd::Function<ContextAttention> {
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                        const c10::intrusive_ptr<Setting>& setting, collective::Result result) {
    const Heads heads = setting->exchange.longer(Heads{q, k, v});
    const Block row = ring_attention(heads, setting->axes.ring.group, setting->documents);
    ctx->saved_data["setting"] = c10::IValue::make_capsule(setting);
    ctx->save_for_backward({heads.q, heads.k, heads.v, row.out_BNQD, row.lse_BNQ});
    if (result == collective::Result::unneeded && setting->axes.heads.group.size() > 1)
      return q.new_empty(q.sizes());
    return setting->exchange.shorter(row.out_BNQD);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const auto setting = c10::static_intrusive_pointer_cast<Setting>(ctx->saved_data["setting"].toCapsule());
    const auto dtype = saved[0].scalar_type();
    Tensor d_out = setting->exchange.longer(gradients[0]);
    if (d_out.stride(-1) != 1) d_out = d_out.contiguous();  // else the kernel would read other channels
    const Heads d = ring_attention_backward(d_out, {saved[0], saved[1], saved[2]}, {saved[3], saved[4]},
                                            setting->axes.ring.group, setting->documents);
    const Heads own = setting->exchange.shorter(Heads{d.q.to(dtype), d.k.to(dtype), d.v.to(dtype)});
    return {own.q, own.k, own.v, Tensor(), Tensor()};
  }
};

}  // namespace

Tensor context_attention(const Heads& heads, const ContextAxes& axes, Documents documents,
                         collective::Result result) {
  const std::int64_t ranks = axes.heads.group.size();
  TESSERA_CHECK(heads.q.size(kHeadDim) % ranks == 0 && heads.q.size(kHeadDim) % heads.k.size(kHeadDim) == 0,
                ranks, " ranks of axis ", axes.heads.name, " for ", heads.q.size(kHeadDim), " query heads, ",
                heads.k.size(kHeadDim), " key heads");
  if (ranks == 1 && axes.ring.group.size() == 1 && !documents.cut_samples() && documents.window == 0)
    return tensor::attention(heads.q, heads.k, heads.v, /*causal=*/true);
  return ContextAttention::apply(heads.q, heads.k, heads.v,
                                 c10::make_intrusive<Setting>(axes, std::move(documents),
                                                              heads.q.size(kHeadDim), heads.k.size(kHeadDim)),
                                 result);
}

}  // namespace tessera::parallel
