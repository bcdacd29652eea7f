// The same program for C++11, which has no count of exceptions in flight.
#include "marks_scopes.cc"
