#include <cstdio>

#include "tessera/base/error.hpp"
#include "tessera/cli/commands.hpp"
#include "tessera/draw/layout_picture.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/metrics/out_file.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/spec/words.hpp"

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

LayoutPicture picture_of(const spec::Run& run) {
  LayoutPicture out = draw::layout_picture(plan::compile(run));
  out.title = cat(spec::word(run.model.family), " on ", out.ranks.size(),
                  out.ranks.size() == 1 ? " rank: " : " ranks: ", mesh_text(out), ", zero ", run.layout.zero);
  out.notes = {
      "On an axis a parameter is R (equal, its gradients partial), I (equal, and so its gradients) or S(d), "
      "cut along "
      "dim d; in slices: what is stored is cut once more, as part of a flat bucket.",
      "A rank's number, its innermost coordinate and the elements that it stores. Pieces bear the ranks that "
      "store "
      "them"};
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
  rows[0].insert(rows[0].end(), {"elements", "bytes"});
  for (std::size_t rank = 0; rank < picture.ranks.size(); ++rank) {
    auto& row = rows.emplace_back(std::vector{cat(rank)});
    for (const std::size_t i : shown) row.push_back(cat(picture.ranks[rank].coordinates[i]));
    row.push_back(cat(picture.ranks[rank].elements));
    row.push_back(bytes_text(static_cast<double>(picture.ranks[rank].bytes)));
  }
  return table(rows);
}

std::string to_text(const LayoutPicture& picture) {
  std::vector<std::vector<std::string>> rows = {
      {"parameter", "shape", "which", "on the axes", "pieces", "copies", "first piece on"}};
  for (const draw::FoldedParameter& parameter : draw::folded(picture))
    for (const auto& [which, first] : parameter.alike)
      rows.push_back({parameter.name, shape_text(first->shape), which.empty() ? "-" : which,
                      first->placements, cat(first->pieces.size()), cat(first->num_copies()),
                      cat("rank ", draw::ranks_label(first->pieces.front().ranks))});
  return cat(picture.title, "\n\n", ranks_table(picture), "\n", table(rows), "\n", picture.notes.front(),
             "\n");
}

metrics::Record to_record(const HeldParameter& parameter) {
  std::vector<metrics::Record> pieces;
  for (const draw::HeldPiece& piece : parameter.pieces) {
    std::vector<metrics::Record> boxes;
    for (const Box& box : piece.boxes) boxes.push_back({{"offset", box.offset}, {"extent", box.extent}});
    pieces.push_back({{"ranks", piece.ranks}, {"boxes", boxes}});
  }
  return {{"name", parameter.name},
          {"bucket", parameter.bucket},
          {"shape", parameter.shape},
          {"placements", parameter.placements},
          {"pieces", pieces}};
}

metrics::Record to_record(const LayoutPicture& picture, const std::string& path) {
  std::vector<metrics::Record> axes, ranks, parameters;
  for (const auto& axis : picture.axes) axes.push_back({{"name", axis.name}, {"size", axis.size}});
  for (const auto& rank : picture.ranks)
    ranks.push_back({{"coordinates", rank.coordinates}, {"elements", rank.elements}, {"bytes", rank.bytes}});
  for (const HeldParameter& parameter : picture.parameters) parameters.push_back(to_record(parameter));
  metrics::Record out = {{"axes", axes}, {"ranks", ranks}, {"parameters", parameters}};
  if (!path.empty()) out.insert(out.begin(), {"file", path});
  return out;
}

}  // namespace

int draw_layout_command(const Options& options) {
  if (options.file.empty() || options.file.ends_with(".json") || options.file.ends_with(".txt") ||
      !options.simulate.schedule.empty() || !options.draw.measured.empty() || options.draw.memory)
    throw UserError(
        "--layout draws who holds what of a run file: name one, without --schedule, --measured or --memory");
  const LayoutPicture picture = picture_of(load_run(options));
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
