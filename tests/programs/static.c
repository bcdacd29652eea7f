/* Linked statically: a preload does not reach this program, and must not disturb it. */
#include <stdio.h>
#include <unistd.h>

int main(void) {
    printf("static\n");
    return isatty(0) ? 1 : 4;
}
