// The cases that the program knows, by name.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "rank.h"

// The body of a case. It returns the number of wrong elements.
typedef std::function<size_t(Member& world)> CaseFunction;

std::map<std::string, CaseFunction>& cases();

// Adds a case when the program starts.
struct Case {
  Case(const char* name, CaseFunction function) { cases()[name] = std::move(function); }
};
