// Which parameters are cut alike? Those of a model's blocks, mostly: one card stands for all of them.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/draw/layout/layout_picture.hpp"

namespace tessera::draw {
namespace {

// The name with its first number, if a part between dots is one, put aside.
struct Numbered {
  std::string pattern;
  std::optional<std::int64_t> number;
};

Numbered numbered(const std::string& name) {
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = std::min(name.find('.', at), name.size());
    const std::string part = name.substr(at, end - at);
    if (!part.empty() && part.size() < 10 &&
        std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; }))
      return {cat(name.substr(0, at), "*", name.substr(end)), std::stoll(part)};
    at = end + 1;
  }
  return {name, std::nullopt};
}

// Pieces as on the first stage.
std::vector<HeldPiece> on_first_stage(const HeldParameter& parameter, const LayoutPicture& picture) {
  std::vector<HeldPiece> out = parameter.pieces;
  const mesh::Rank first = out.front().ranks.front(), shift = first - picture.on_first_stage(first);
  for (HeldPiece& piece : out)
    for (mesh::Rank& rank : piece.ranks) rank -= shift;
  return out;
}

// "0 to 5, 8".
std::string numbers_text(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    words.push_back(end - i == 1 ? cat(numbers[i])
                                 : cat(numbers[i], end - i == 2 ? ", " : " to ", numbers[end - 1]));
    i = end;
  }
  return join(words, ", ");
}

std::string which_text(const std::vector<const HeldParameter*>& members, const LayoutPicture& picture) {
  const bool is_staged = picture.stage_axis >= 0;
  std::map<mesh::Rank, std::vector<std::int64_t>> by_stage;
  for (const HeldParameter* member : members)
    by_stage[picture.stage_of(member->pieces.front().ranks.front())].push_back(
        numbered(member->name).number.value_or(-1));
  std::vector<std::string> words;
  for (auto& [stage, numbers] : by_stage) {
    std::ranges::sort(numbers);
    const std::string which = numbers.front() < 0 ? "" : numbers_text(numbers);
    const std::string on =
        is_staged ? cat("on ", picture.axes[static_cast<std::size_t>(picture.stage_axis)].name, " ", stage)
                  : "";
    words.push_back(cat(which, which.empty() || on.empty() ? "" : " ", on));
  }
  return join(words, "; ");
}

}  // namespace

std::vector<FoldedParameter> folded(const LayoutPicture& picture) {
  std::vector<std::pair<std::string, std::vector<const HeldParameter*>>> groups;
  std::map<std::tuple<std::string, Shape, std::string>, std::size_t> known;
  for (const HeldParameter& parameter : picture.parameters) {
    const std::string pattern = numbered(parameter.name).pattern;
    const auto [at, is_new] =
        known.try_emplace({pattern, parameter.shape, parameter.placements}, groups.size());
    if (is_new) groups.push_back({pattern, {}});
    groups[at->second].second.push_back(&parameter);
  }
  std::vector<FoldedParameter> out;
  for (const auto& [pattern, members] : groups) {
    FoldedParameter& folded = out.emplace_back(
        FoldedParameter{members.size() == 1 ? members.front()->name : pattern, std::ssize(members), {}});
    std::vector<std::pair<std::vector<HeldPiece>, std::vector<const HeldParameter*>>> alike;
    for (const HeldParameter* member : members) {
      auto pieces = on_first_stage(*member, picture);
      const auto found = std::ranges::find(alike, pieces, [](const auto& each) { return each.first; });
      if (found == alike.end())
        alike.push_back({std::move(pieces), {member}});
      else
        found->second.push_back(member);
    }
    for (const auto& [pieces, equals] : alike)
      folded.alike.push_back({which_text(equals, picture), equals.front()});
  }
  return out;
}

std::string ranks_label(std::span<const mesh::Rank> ranks) {
  if (ranks.size() > 2) {
    const mesh::Rank step = ranks[1] - ranks[0];
    const auto is_even = std::ranges::adjacent_find(
                             ranks, [&](mesh::Rank a, mesh::Rank b) { return b - a != step; }) == ranks.end();
    if (is_even && step == 1) return cat(ranks.front(), " to ", ranks.back());
    if (is_even) return cat(ranks[0], ", ", ranks[1], ranks.size() == 3 ? ", " : " .. ", ranks.back());
  }
  std::vector<std::string> words;
  for (const mesh::Rank rank : ranks) words.push_back(cat(rank));
  return join(words, ", ");
}

}  // namespace tessera::draw
