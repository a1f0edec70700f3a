// A chat template as a tree of statements and expressions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tessera/data/chat/template_tokens.hpp"

namespace tessera::data {

using Json = nlohmann::ordered_json;

struct Expression {
  enum class Kind {
    literal,     // value
    variable,    // name
    list,        // children
    dictionary,  // children: key, value, key, value, ...
    attribute,   // children[0].name
    index,       // children[0][children[1]]
    slice,       // children[0][children[1] : children[2] : children[3]]; literals of null where left out
    call,        // children[0](children[1...], keywords)
    filter,      // children[0] | name(children[1...], keywords)
    test,        // children[0] is name
    unary,       // name children[0]
    binary,      // children[0] name children[1]
    choice,      // children[0] if children[1] else children[2]
  };
  Kind kind = Kind::literal;
  int line = 0;
  std::string name;
  Json value;
  std::vector<Expression> children;
  std::vector<std::string> keyword_names;  // of call and filter
  std::vector<Expression> keyword_values;
};

// The name of an empty literal in the place of an `else` that is not there.
inline constexpr char kLeftOut[] = "left out";

struct Statement {
  enum class Kind { text, output, condition, loop, set };
  Kind kind = Kind::text;
  int line = 0;
  std::string text;                     // of text; the attribute that is set, or empty
  std::vector<std::string> names;       // of what a loop or set gives a value to
  std::vector<Expression> expressions;  // output, set: one. loop: what it goes over, and a condition if any.
                                        // condition: one for each body but a last `else`
  std::vector<std::vector<Statement>> bodies;
};

// Throws UserError naming the line and what is not understood: only a part of Jinja is.
std::vector<Statement> parse_template(std::string_view text, const std::string& name);

}  // namespace tessera::data
