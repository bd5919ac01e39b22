/** The exit codes, for every `--help` that shows them. */
export const EXIT_CODES_HELP = `
Exit codes:
  0 finished   1 failed   2 usage   3 parked or transient: retry later   4 credentials or approval
  7 budget   125 daemon or runner unreachable   130 cancelled
`
