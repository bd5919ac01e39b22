/** For Breakfall's own packages. Not public: it may change in any release. */
export { toDiagnostic } from './diagnostics.ts'
export { explainingLine } from './explaining-line.ts'
export { headline } from './headline.ts'
export { makeRedactor } from './redactor.ts'
