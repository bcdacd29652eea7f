#pragma once
typedef __builtin_va_list va_list;
typedef __builtin_va_list __gnuc_va_list;
