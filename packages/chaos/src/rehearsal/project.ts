/** The small project of the script `fix`: plain `sh`, so it runs in any box, with one real bug. */

export const TEST_FILE = 'test.sh'
export const CODE_FILE = 'slug.sh'
export const TEST_COMMAND = `sh ${TEST_FILE}`
export const ALL_PASSED = 'all 4 checks passed'

export const WRONG = `tr ' ' '-'`
export const RIGHT = `tr -s ' ' '-'`

const code = (join: string): string => `#!/bin/sh
# Prints its arguments as a slug: lower case, words joined by single dashes.
printf '%s\\n' "$*" | tr '[:upper:]' '[:lower:]' | ${join}
`

const TEST = `#!/bin/sh
# Checks ${CODE_FILE}: one line per check, exit 1 when any failed.
failed=0
check() {
  got=$(sh ./${CODE_FILE} "$2")
  if [ "$got" = "$1" ]; then
    echo "ok: '$2' gives $got"
  else
    echo "FAILED: '$2' gives $got, expected $1"
    failed=$((failed + 1))
  fi
}
check hello-world 'Hello World'
check breakfall 'Breakfall'
check two-blanks 'Two  blanks'
check a-b-c 'A   b  C'
if [ "$failed" -gt 0 ]; then
  echo "$failed of 4 checks failed"
  exit 1
fi
echo '${ALL_PASSED}'
`

const README = `# slug

\`sh ${CODE_FILE} "Some Title"\` prints \`some-title\`. Run the checks with \`${TEST_COMMAND}\`: one of them finds a bug.
`

export const FIXED_CODE = code(RIGHT)

/** Path to content, to be written into a scratch folder. */
export const REHEARSAL_PROJECT: Readonly<Record<string, string>> = {
  'README.md': README,
  [CODE_FILE]: code(WRONG),
  [TEST_FILE]: TEST,
}

export const REHEARSAL_PROMPT =
  'A check in this folder fails. Find the cause, fix the code, and show that all checks pass.'
