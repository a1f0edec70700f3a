// The content of a picture of a step. Bars on rows over time, what ranks hold, and the numbers above: made of
// a program with its simulated timeline, or of a trace, and drawn by svg.hpp and html.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/program/ir/types.hpp"

namespace tessera::draw {

// One op on its lane.
struct Bar {
  std::string word;  // program/ir/text.hpp
  program::OpKind what = program::OpKind::forward;
  std::int32_t micro = program::kOfStep;
  std::uint32_t visit = 0;  // compute: which of its rank's virtual stages, in the model's order
  double start = 0, end = 0;
  std::string waits;  // words of the ops it waits for
  bool operator==(const Bar&) const = default;
};

struct Row {
  std::string lane;  // compute, copy, or the axis set
  program::LaneKind kind = program::LaneKind::compute;
  std::vector<Bar> bars;  // by start
  bool operator==(const Row&) const = default;
};

// What is held from `time` on.
struct Level {
  double time = 0, held = 0;
  bool operator==(const Level&) const = default;
};

// A rank, or one that stands for its equals.
struct Lanes {
  std::string name;            // "rank 3"
  std::int64_t num_ranks = 1;  // that it stands for
  std::vector<Row> rows;       // the compute lane first
  std::vector<Level> held;
  double busy = 0;  // of the compute lane, optimizer steps not counted
  double peak_held = 0;
  bool operator==(const Lanes&) const = default;
};

struct Panel {
  std::string title;  // "predicted", "measured"
  std::vector<Lanes> ranks;
  double makespan = 0;  // end of the last compute op before the optimizer's steps
  double end = 0;       // of the last bar
  bool operator==(const Panel&) const = default;

  // Idle share of the compute lanes within the makespan.
  double bubble() const;
  double peak_held() const;  // of the rank that holds most
};

enum class Unit : std::uint8_t { seconds, of_costs };
enum class Held : std::uint8_t { activations, bytes };

struct Picture {
  std::string title;
  Unit unit = Unit::of_costs;
  Held held = Held::activations;
  std::vector<Panel> panels;  // one, or predicted and measured
  std::vector<std::string> notes;
  bool operator==(const Picture&) const = default;
};

// "1.25 ms", "25.5".
std::string time_text(double time, Unit unit);
// "3", "1.5 GiB".
std::string held_text(double held, Held kind);

// "makespan 33, bubble 27.3 %, at most 4 activations held".
std::string numbers_text(const Picture& picture, const Panel& panel);

// Sorts bars by time, and fills in busy, peaks, makespan and end from the bars.
void measure(Panel& panel);

// Activations over time: from a forward's start to the end of its backward, or of its weight half.
std::vector<Level> held_activations(const Row& compute);

}  // namespace tessera::draw
