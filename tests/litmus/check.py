#!/usr/bin/env python3
"""Checks the litmus tests of this folder with herd7, and their twins.

    check.py [herd7]

A test names an outcome that must never be observed: by the model of C11 (*.c.litmus), of AArch64 or
of x86-64. A twin is the test with one fence removed, or one order weakened. Its outcome must be
possible, so that the test can fail. Twins are made here:

    C:          a line that ends in "// twin: none" is left out; in one that ends in
                "// twin: release relaxed" the first order becomes the second
    assembler:  "(* twin: P0 DMB ISH -> NOP *)": in the column P0 one instruction becomes the other
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

MODELS = {'c': 'rc11.cat', 'aarch64': 'aarch64.cat', 'x86': 'x86tso-mixed.cat'}


def twins_of_c(text):
    lines = text.splitlines(keepends=True)
    for i, line in enumerate(lines):
        mark = re.search(r'// twin: (\w+)(?: (\w+))?$', line)
        if not mark:
            continue
        order, weaker = mark.groups()
        changed = '' if order == 'none' else line.split('//')[0].replace(
            'memory_order_' + order, 'memory_order_' + weaker) + '\n'
        assert changed != line, f'no such order: {line}'
        yield ''.join(lines[:i] + [changed] + lines[i + 1:])


def replace_in_column(text, column, before, after):
    done = 0
    lines = text.splitlines(keepends=True)
    for i, line in enumerate(lines):
        cells = line.rstrip(' ;\n').split('|')
        if not line.rstrip().endswith(';') or column >= len(cells):
            continue
        if cells[column].strip() == before:
            cells[column] = f' {after} '
            lines[i] = '|'.join(cells) + ' ;\n'
            done += 1
    assert done == 1, f'{before} is {done} times in P{column}'
    return ''.join(lines)


def twins_of_assembler(text):
    marks = re.findall(r'\(\* twin: P(\d) (.+?) -> (.+?) \*\)', text)
    for column, before, after in marks:
        yield replace_in_column(text, int(column), before, after)


def renamed(text, name):
    kind, _, rest = text.partition(' ')
    return f'{kind} {name}\n' + rest.partition('\n')[2]


def observations(herd, model, files):
    """By name: Never, Sometimes or Always."""
    output = subprocess.run([herd, '-model', model, *files], capture_output=True, text=True,
        check=False)
    if output.stderr.strip():
        print('# ' + output.stderr.strip().replace('\n', '\n# '))
    return dict(re.findall(r'^Observation (\S+) (\w+)', output.stdout, re.M))


def cases_of(path):
    """The test and its twins: name, text, may the outcome be observed."""
    text = path.read_text()
    name = path.name.removesuffix('.litmus').replace('.', '-')
    make = twins_of_c if path.name.endswith('.c.litmus') else twins_of_assembler
    twins = list(make(text))
    assert twins, f'{path.name} has no twin'
    yield name, renamed(text, name), False
    for i, twin in enumerate(twins, 1):
        yield f'{name}-twin-{i}', renamed(twin, f'{name}-twin-{i}'), True


def check(herd, folder):
    number = failed = 0
    for suffix, model in MODELS.items():
        paths = sorted(folder.glob(f'*.{suffix}.litmus'))
        cases = [case for path in paths for case in cases_of(path)]
        with tempfile.TemporaryDirectory() as place:
            files = [pathlib.Path(place, name + '.litmus') for name, _, _ in cases]
            for file, (_, text, _) in zip(files, cases):
                file.write_text(text)
            seen = observations(herd, model, files)
        for name, _, possible in cases:
            number += 1
            good = seen.get(name) in (('Sometimes', 'Always') if possible else ('Never',))
            failed += not good
            print(f'{"" if good else "not "}ok {number} - {name}: {seen.get(name, "no answer")}')
    print(f'1..{number}')
    return failed


def main():
    herd = shutil.which(sys.argv[1] if len(sys.argv) > 1 else 'herd7')
    if not herd:
        print('1..0 # SKIP herd7 is not installed (package herdtools7)')
        return 0
    return 1 if check(herd, pathlib.Path(__file__).parent) else 0


if __name__ == '__main__':
    sys.exit(main())
