int sum_of(values, count)
int* values;
int count;
{
    int class = 0; /* a word that C++ keeps */
    while (count--) class += values[count];
    return class;
}
