"""Fast scoring of TF-IDF and linear models, with the numbers of scikit-learn.

scikit-learn cuts every text into n-grams in a Python loop, which takes more than 99 % of its time.
But all texts are made of the same words. Here each different word is cut once, for all texts:

1. `reading`: a text becomes the numbers of its words (what stands between white space).
2. `trie`: the n-grams of new words are looked up in the vocabulary, all at once in numpy.
3. `counting`: counts of n-grams are a product of two sparse matrices, texts by words and words by
   n-grams. N-grams that span words are looked up in the texts themselves.
4. `weighing`: counts become TF-IDF, and TF-IDF times coefficients becomes the model's answer.
5. `recognised` finds out whether a fitted pipeline has this shape, `model` puts its parts together,
   and `answers` leaves every other model to scikit-learn.
"""
