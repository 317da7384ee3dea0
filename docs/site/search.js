// The order of the results of the site's search: BM25 over pages, with their headings as a second field.
//
// Sphinx gives a page the same score for a word in any of its headings, so long pages with many headings come first,
// and a page that lacks one word of a question is not found.  Its index has no numbers of occurrences, so each
// word of a page counts once.

var Scorer = {
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 0, 1: 0, 2: -5 }, objPrioDefault: 0,
  // Sphinx adds this for a heading that is the question; the page whose section it is may only explain the word.
  title: 6, partialTitle: 7, term: 5, partialTerm: 2,
  // An entry of the index of Python names is worth less than a text about them.
  score: (result) => (result[6] === SearchResultKind.index ? result[4] / 10 : result[4]),
};

const BM25 = { k: 1.2, b: 0.6, heading: 1.5, prefix: 0.5 };

// Users search for tasks.  An index page only lists other pages.
const WORTH = { "how-to": 1.3, explanation: 1.1, project: 0.8, index: 0.5 };

const filesOf = (files) => (files === undefined ? [] : [files].flat());

// The number of different words of each page.
const pageLengths = () => {
  const lengths = Search._index.docnames.map(() => 0);
  for (const files of Object.values(Search._index.terms)) {
    for (const file of filesOf(files)) lengths[file] += 1;
  }
  return lengths;
};

// The pages that have a word in their text, with a weight: 1, or less if they only have a longer word.
const pagesWith = (word) => {
  const weights = new Map();
  for (const index of [Search._index.terms, Search._index.titleterms]) {
    const names = word.length < 3 ? [word] : Object.keys(index).filter((name) => name.startsWith(word));
    for (const name of names) {
      for (const file of filesOf(Object.hasOwn(index, name) ? index[name] : undefined)) {
        weights.set(file, Math.max(weights.get(file) ?? 0, name === word ? 1 : BM25.prefix));
      }
    }
  }
  return weights;
};

// The number of letters to insert, delete, replace or exchange, at most `most` + 1.
const distance = (left, right, most) => {
  if (Math.abs(left.length - right.length) > most) return most + 1;
  let [before, row] = [[], Array.from({ length: right.length + 1 }, (_, at) => at)];
  for (let i = 1; i <= left.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= right.length; j += 1) {
      const same = left[i - 1] === right[j - 1];
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (same ? 0 : 1));
      if (i > 1 && left[i - 1] === right[j - 2] && left[i - 2] === right[j - 1]) next[j] = Math.min(next[j], before[j - 2] + 1);
    }
    [before, row] = [row, next];
  }
  return row[right.length];
};

// A word that no page has is misspelt: the nearest word of the index, of several the one on most pages.
const spelt = (word) => {
  const { terms, titleterms } = Search._index;
  const has = (index, name) => (Object.hasOwn(index, name) ? filesOf(index[name]).length : 0);
  const pages = (name) => has(terms, name) + has(titleterms, name);
  if (word.length < 4 || pagesWith(word).size) return word;
  const most = word.length < 7 ? 1 : 2;
  let best = [most + 1, 0, word];
  for (const name of new Set([...Object.keys(terms), ...Object.keys(titleterms)])) {
    const steps = distance(word, name, most);
    if (steps < best[0] || (steps === best[0] && steps <= most && pages(name) > best[1])) best = [steps, pages(name), name];
  }
  return best[2];
};

// For each page its heading that has most of the words: [weight, heading, anchor].
const bestHeadings = (rarity) => {
  const stemmer = new Stemmer();
  const best = new Map();
  for (const [heading, places] of Object.entries(Search._index.alltitles)) {
    const words = new Set(splitQuery(heading.toLowerCase()).map((word) => stemmer.stemWord(word)));
    let weight = 0;
    for (const [word, value] of rarity) if (words.has(word)) weight += value;
    weight /= 1 + words.size / 10;
    for (const [file, anchor] of weight > 0 ? places : []) {
      // The title of a page says more than one of its headings.
      const own = anchor === null ? weight * 1.3 : weight;
      if (own > (best.get(file)?.[0] ?? 0)) best.set(file, [own, heading, anchor]);
    }
  }
  return best;
};

const rankedPages = (searchTerms, excludedTerms) => {
  const { docnames, filenames, titles } = Search._index;
  const lengths = pageLengths();
  const average = lengths.reduce((sum, length) => sum + length, 0) / lengths.length;
  const found = new Map([...searchTerms].map(spelt).map((word) => [word, pagesWith(word)]));
  const rarity = new Map();
  for (const [word, files] of found) {
    rarity.set(word, Math.log(1 + (docnames.length - files.size + 0.5) / (files.size + 0.5)));
  }
  const headings = bestHeadings(rarity);
  const excluded = new Set([...excludedTerms].flatMap((word) => [...pagesWith(word).keys()]));
  const counts = docnames.map((_, file) => [...found.values()].filter((files) => files.has(file)).length);
  // A question may have one word that its answer lacks.  If no page has so many words, the pages with the most count.
  const least = Math.min(found.size - (found.size > 2 ? 1 : 0), Math.max(...counts));
  const results = [];
  docnames.forEach((name, file) => {
    const words = [...found].filter(([, files]) => files.has(file));
    if (!words.length || words.length < least || excluded.has(file)) return;
    const norm = BM25.k * (1 - BM25.b + (BM25.b * lengths[file]) / average);
    let score = 0;
    for (const [word, files] of words) score += (rarity.get(word) * files.get(file) * (BM25.k + 1)) / (1 + norm);
    const [weight, heading, anchor] = headings.get(file) ?? [0, titles[file], null];
    score = 4 * (score + BM25.heading * weight) * (words.length / found.size) ** 2;
    score *= WORTH[name.split("/").pop() === "index" ? "index" : name.split("/")[0]] ?? 1;
    const title = anchor ? `${titles[file]} > ${heading}` : titles[file];
    results.push([name, title, anchor ? `#${anchor}` : "", null, score, filenames[file], SearchResultKind.text]);
  });
  return results;
};

// This file is a part of language_data.js, which pages load after the search and before the index.
Search.performTermsSearch = rankedPages;
