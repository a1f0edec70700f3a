#include "tessera/plan/model/open_experts.hpp"

#include <algorithm>

#include "tessera/base/text.hpp"
#include "tessera/plan/model/experts.hpp"

namespace tessera::plan {
namespace {

using program::Collective;
using program::CollectiveKind;
using program::Piece;
using program::Step;

// Runs after `piece`, in the same segment.
void join_piece(Piece& piece, const Piece& next) {
  add_costs(piece, next);
  for (program::ResultWork work : next.result_work) {
    if (work.step >= 0) work.step = static_cast<std::int16_t>(work.step + std::ssize(piece.steps));
    work.first_call += static_cast<std::uint32_t>(piece.collectives.size());
    piece.result_work.push_back(work);
  }
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  append(piece.collectives, next.collectives);
  // The backward begins with the last.
  std::vector<Collective> backward = next.backward_collectives;
  append(backward, piece.backward_collectives);
  piece.backward_collectives = std::move(backward);
  append(piece.losses, next.losses);
  append(piece.steps, next.steps);
}

Piece joined(std::span<const Piece> pieces) {
  Piece out{.backward_flops = 0};
  for (const Piece& piece : pieces) join_piece(out, piece);
  return out;
}

Piece of_steps(Piece piece, std::vector<std::string> writes) {
  std::vector<std::string> names;
  for (const Step& step : piece.steps)
    if (step.kind == Step::Kind::work) names.push_back(step.name);
  piece.name = join(names, "+");
  piece = made_of(piece, piece.steps);
  piece.writes = std::move(writes);
  return piece;
}

bool routes(const Piece& piece) { return std::ranges::count(piece.steps, "experts", &Step::name) > 0; }

}  // namespace

program::Unit open_experts(const program::Unit& block, const spec::Model& model, const StepShape& shape) {
  const auto at = std::ranges::find_if(block.pieces, routes);
  if (at == block.pieces.end()) return block;
  const Sizes s(model, shape);
  const ExpertSizes e(model, shape.layout);
  const std::int64_t row = s.h * s.c, stream = s.r * row, leaving = e.leaving * row, rows = e.rows * row,
                     inner = e.rows * e.f * s.c, scores = e.t * e.experts * s.a,
                     most_rows = std::max(leaving, rows);
  const auto experts = std::ranges::find(at->steps, "experts", &Step::name);
  const bool has_shared = model.shared_experts > 0;
  const Collective travel{CollectiveKind::all_to_all, s.over_expert_exchanges, leaving};
  const program::Exchange exchange{{travel}, {travel}};
  const auto own = [&](std::size_t first, std::size_t count) {
    return std::vector(experts->parameters.begin() + static_cast<std::ptrdiff_t>(first),
                       experts->parameters.begin() + static_cast<std::ptrdiff_t>(first + count));
  };
  // Parameters are the router's, two of the experts, and the bias of the choice, if there is one.
  std::vector<std::string> of_router = own(0, 1);
  if (experts->parameters.size() > 3) of_router.push_back(experts->parameters[3]);

  Piece before = joined(std::span(block.pieces.begin(), at));
  Piece route{.flops = product_flops(e.t, s.h, e.experts),
              .bytes_read = stream + 2 * scores + leaving,
              .bytes_written = 2 * scores + leaving,
              .tape_bytes = stream + scores + e.t * e.k * (2 * s.a + 24),
              .scratch_bytes = leaving,
              .backward_scratch_bytes = leaving + stream,
              .losses = at->losses,
              .steps = {step("router", {"entering_2"}, {"sent", "gates"}, of_router)},
              .collectives = routing_calls(model, s, e)};
  // Rows of a recomputation go the ways that its forward found.
  if (e.ranks > 1)
    route.result_work = {{.first_call = static_cast<std::uint32_t>(route.collectives.size() - 2),
                          .num_calls = 2,
                          .is_kept = true}};
  add_sharing_of_tokens(route.backward_collectives, s);
  join_piece(before, route);
  before = of_steps(std::move(before), {"middle", "entering_2", "sent", "gates"});
  before.write_bytes = {stream, stream, most_rows, e.t * e.k * s.a};
  before.exchanges = {{}, {}, exchange, {}};
  if (!has_shared) {
    std::erase(before.writes, "entering_2");
    before.write_bytes.erase(before.write_bytes.begin() + 1);
    before.exchanges.erase(before.exchanges.begin() + 1);
  }

  Piece middle{.flops = 3 * product_flops(e.rows, s.h, e.f),
               .bytes_read = (3 * e.held * e.f * s.h) * s.c + 3 * rows + 4 * inner,
               .bytes_written = 3 * rows + 4 * inner,
               .tape_bytes = rows + 4 * inner,
               .work_bytes = 2 * rows + 4 * inner,
               .scratch_bytes = rows + 3 * inner,
               .backward_scratch_bytes = rows + 3 * inner,
               .steps = {step("experts", {"sent"}, {"made"}, own(1, 2))}};
  middle = of_steps(std::move(middle), {"made"});
  middle.write_bytes = {most_rows};
  middle.exchanges = {exchange};

  Piece after{.flops = 2.0 * static_cast<double>(e.t * e.k * s.h),
              .bytes_read = 2 * leaving + stream,
              .bytes_written = 2 * stream,
              .tape_bytes = leaving,
              .scratch_bytes = leaving + stream,
              .backward_scratch_bytes = 2 * leaving,
              .steps = {step("combine", {"made", "gates"}, experts->writes)}};
  add_sharing_of_results(after, s);
  for (program::ResultWork& work : after.result_work) work.step = 0;  // combine
  after.steps.insert(after.steps.end(), experts + 1, at->steps.end());
  join_piece(after, joined(std::span(at + 1, block.pieces.end())));
  after = of_steps(std::move(after), block.pieces.back().writes);
  after.channels = s.h;
  after.token_parts = s.n / s.r;
  return {block.name, {std::move(before), std::move(middle), std::move(after)}};
}

}  // namespace tessera::plan
