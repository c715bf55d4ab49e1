/* SPDX-License-Identifier: BSD-2-Clause */
/* Does the compiler have the sanitizer? */
int main(void)
{
	return 0;
}
