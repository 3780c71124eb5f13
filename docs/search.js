// Order of search results: guides, then keys, commands and evidence, then the library.
var Scorer = {
  score: ([page, , , , score]) => {
    if (/^(guides\/|(start|tutorial|glossary|threat-model)$)/.test(page)) return score + 20;
    return /^reference\/(library|metrics)/.test(page) ? score - 20 : score;
  },
  // The defaults of Sphinx, which this object replaces.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
