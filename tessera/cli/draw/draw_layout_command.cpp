#include <cstdio>

#include "tessera/base/error.hpp"
#include "tessera/cli/draw/draw_commands.hpp"
#include "tessera/draw/layout/layout_picture.hpp"
#include "tessera/families/families.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/metrics/out_file.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/spec/problems.hpp"

namespace tessera::cli {
namespace {

using draw::HeldParameter;
using draw::LayoutPicture;

std::string mesh_text(const LayoutPicture& picture) {
  std::vector<std::string> words;
  for (const auto& axis : picture.axes)
    if (axis.size > 1) words.push_back(cat(axis.name, " ", axis.size));
  return words.empty() ? "one rank" : join(words, " x ");
}

// The stream between branches, and the queries inside of one.
std::vector<HeldParameter> values_of(const spec::Run& run, const LayoutPicture& picture) {
  const spec::Layout& layout = run.layout;
  if (layout.tp == 1) return {};
  const std::int64_t tokens = layout.micro_batch * run.model.sequence / layout.cp;
  const Shape stream = {tokens, run.model.hidden}, queries = {tokens, run.model.query_size()};
  const std::string of_stream = "hidden, between branches", of_branch = "queries, inside of a branch";
  if (layout.in_blocks()) {
    const bool is_cube = layout.tp_kind == spec::TensorKind::d3;
    const draw::ValueCut rows{0, {"tp_depth", "tp_row"}}, columns{1, {"tp_col"}},
        inner_rows = is_cube ? draw::ValueCut{0, {"tp_depth", "tp_col"}} : rows,
        inner_columns = is_cube ? draw::ValueCut{1, {"tp_row"}} : columns;
    return {draw::held_value(picture, of_stream, stream, {rows, columns}, {}),
            draw::held_value(picture, of_branch, queries, {inner_rows, inner_columns}, {})};
  }
  std::vector<std::string> tp;  // with the factors that experts fold it into
  for (const program::Axis& axis : picture.axes)
    if (axis.role == program::AxisRole::channels) tp.push_back(axis.name);
  return {layout.cuts_stream() ? draw::held_value(picture, of_stream, stream, {{0, tp}}, {})
                               : draw::held_value(picture, of_stream, stream, {}, tp),
          draw::held_value(picture, of_branch, queries, {{1, tp}}, {})};
}

LayoutPicture picture_of(const spec::Run& run) {
  LayoutPicture out =
      draw::layout_picture(plan::compile(families::step_request(run)), static_cast<int>(run.layout.zero));
  out.values = values_of(run, out);
  out.title = cat(spec::word(run.model.family), " on ", out.ranks.size(),
                  out.ranks.size() == 1 ? " rank: " : " ranks: ", mesh_text(out), ", zero ", run.layout.zero);
  out.notes = {
      "On an axis a parameter is R (equal, its gradients partial), I (equal, and so its gradients) or S(d), "
      "cut along dim d. In slices: what ZeRO shards is cut once more, as part of a flat bucket (optimizer "
      "state, with master weights, from zero 1 on; gradients from 2; weights from 3).",
      "Kept from step to step. A rank's number, its innermost coordinate and the elements that it keeps, of "
      "each group below "
      "in turn. Pieces bear the ranks that keep them"};
  out.notes.back() += out.stage_axis < 0 ? "; grey sheets behind are copies."
                                         : cat(" on the first stage of their layers, ", out.stage_stride(),
                                               " further on each next; grey sheets behind are copies.");
  return out;
}

std::string ranks_table(const LayoutPicture& picture) {
  std::vector<std::vector<std::string>> rows = {{"rank"}};
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < picture.axes.size(); ++i)
    if (picture.axes[i].size > 1) shown.push_back(i);
  for (const std::size_t i : shown) rows[0].push_back(picture.axes[i].name);
  for (const draw::Kept kept : draw::kAllKept)
    rows[0].push_back(cat("elements of ", draw::names_of({{kept}})));
  for (std::size_t rank = 0; rank < picture.ranks.size(); ++rank) {
    auto& row = rows.emplace_back(std::vector{cat(rank)});
    for (const std::size_t i : shown) row.push_back(cat(picture.ranks[rank].coordinates[i]));
    for (const draw::Kept kept : draw::kAllKept)
      row.push_back(cat(picture.elements(picture.ranks[rank], kept)));
  }
  return table(rows);
}

std::string to_text(const LayoutPicture& picture) {
  std::vector<std::vector<std::string>> rows = {
      {"parameter", "shape", "which", "on the axes", "kept", "pieces", "copies", "first piece on"}};
  for (const draw::FoldedParameter& parameter : draw::folded(picture))
    for (const auto& [which, first] : parameter.alike)
      for (const auto& group : picture.groups()) {
        const auto& pieces = picture.pieces(*first, group.front());
        rows.push_back({parameter.name, shape_text(first->shape), which.empty() ? "-" : which,
                        first->placements, draw::names_of(group), cat(pieces.size()),
                        cat(draw::num_copies(pieces)),
                        cat("rank ", draw::ranks_label(pieces.front().ranks))});
      }
  for (const HeldParameter& value : picture.values)
    rows.push_back({value.name, shape_text(value.shape), "-", value.placements, "values",
                    cat(value.pieces.size()), cat(draw::num_copies(value.pieces)),
                    cat("rank ", draw::ranks_label(value.pieces.front().ranks))});
  return cat(picture.title, "\n\n", ranks_table(picture), "\n", table(rows), "\n", picture.notes.front(),
             "\n");
}

std::vector<metrics::Record> to_records(const std::vector<draw::HeldPiece>& held) {
  std::vector<metrics::Record> pieces;
  for (const draw::HeldPiece& piece : held) {
    std::vector<metrics::Record> boxes;
    for (const Box& box : piece.boxes) boxes.push_back({{"offset", box.offset}, {"extent", box.extent}});
    pieces.push_back({{"ranks", piece.ranks}, {"boxes", boxes}});
  }
  return pieces;
}

metrics::Record to_record(const LayoutPicture& picture, const HeldParameter& parameter) {
  return {{"name", parameter.name},
          {"bucket", parameter.bucket},
          {"shape", parameter.shape},
          {"placements", parameter.placements},
          {"weights", to_records(picture.pieces(parameter, draw::Kept::weights))},
          {"gradients", to_records(picture.pieces(parameter, draw::Kept::gradients))},
          {"optimizer", to_records(picture.pieces(parameter, draw::Kept::optimizer))}};
}

metrics::Record to_record(const LayoutPicture& picture, const std::string& path) {
  std::vector<metrics::Record> axes, ranks, parameters;
  for (const auto& axis : picture.axes) axes.push_back({{"name", axis.name}, {"size", axis.size}});
  for (const auto& rank : picture.ranks)
    ranks.push_back({{"coordinates", rank.coordinates},
                     {"weights", picture.elements(rank, draw::Kept::weights)},
                     {"gradients", picture.elements(rank, draw::Kept::gradients)},
                     {"optimizer", picture.elements(rank, draw::Kept::optimizer)}});
  for (const HeldParameter& parameter : picture.parameters)
    parameters.push_back(to_record(picture, parameter));
  std::vector<metrics::Record> values;
  for (const HeldParameter& value : picture.values)
    values.push_back({{"name", value.name},
                      {"shape", value.shape},
                      {"placements", value.placements},
                      {"blocks", to_records(value.pieces)}});
  metrics::Record out = {{"axes", axes}, {"ranks", ranks}, {"parameters", parameters}, {"values", values}};
  if (!path.empty()) out.insert(out.begin(), {"file", path});
  return out;
}

}  // namespace

int draw_layout_command(const Options& options) {
  if (options.file.empty() || options.file.ends_with(".json") || options.file.ends_with(".txt") ||
      !options.simulate.schedule.empty() || !options.draw.measured.empty() || options.draw.memory)
    throw UserError(
        "--layout draws who holds what of a run file: name one, without --schedule, --measured or --memory");
  const LayoutPicture picture = picture_of(job::load_run(options, spec::any_build()));
  const std::string& path = options.draw.out;
  if (!path.empty()) {
    if (!path.ends_with(".svg"))
      throw UserError(cat("-o ", path, ": a picture of a layout wants a name that ends in .svg"));
    const std::string text = draw::to_svg(picture);  // before the file is emptied
    metrics::OutFile(path, "-o").write(text);
  }
  if (options.json)
    std::puts(metrics::json_object(to_record(picture, path)).c_str());
  else if (path.empty())
    std::fputs(to_text(picture).c_str(), stdout);
  else
    std::puts(cat(picture.title, "\ndrawn in ", path).c_str());
  return 0;
}

}  // namespace tessera::cli
