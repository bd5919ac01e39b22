import assert from 'node:assert/strict'
import { test } from 'node:test'
import { versionIn } from '../src/commands/doctor/toolchains.ts'

test('the version of a program comes from the line that names it', () => {
  const log = '[0.001s][warning][os,container] cgroup v2 is not available\n'
  for (const [program, text, version] of [
    ['mvn', `${log}Apache Maven 3.9.9 (8e8579a)\nJava version: 21.0.5, vendor: X\n`, '3.9.9'],
    ['mvn', 'WARNING: 1.2.3 is old\n\u001B[1mApache Maven 3.8.7\u001B[m\n', '3.8.7'],
    ['java', `${log}openjdk version "21.0.5" 2024-10-15\n`, '21.0.5'],
    ['python3', 'Python 3.12.4\n', '3.12.4'],
    ['node', 'v24.12.0\n', '24.12.0'],
    ['gcc', 'no digits\n', ''],
  ] as const)
    assert.equal(versionIn(text, program), version, text)
})
